package faults_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// viewed are the collections that the operator lists and watches in all namespaces.
var viewed = []string{"/apis/workers.pgflow.dev/v1alpha1/", "/api/v1/"}

// apiView is the API server as it would be if it had one namespace: lists and watches over all namespaces are answered
// with that namespace's objects. Everything else, and who is allowed what, is the API server's own doing.
type apiView struct {
	server *httptest.Server
}

// newAPIView returns a view that is closed when the test ends.
func newAPIView(t testing.TB, namespace string) *apiView {
	t.Helper()
	target, err := url.Parse(shared.kube.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(shared.kube.Config))
	if err != nil {
		t.Fatal(err)
	}
	view := &apiView{server: httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			for _, group := range viewed {
				if resource, ok := strings.CutPrefix(r.In.URL.Path, group); ok && (resource == "workerfunctions" || resource == "secrets") {
					r.Out.URL.Path = group + "namespaces/" + namespace + "/" + resource
				}
			}
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})}
	view.server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections are cut all the time
	view.server.EnableHTTP2 = true
	view.server.StartTLS()
	t.Cleanup(func() {
		view.server.CloseClientConnections()
		view.server.Close()
		closeIdle(transport)
	})
	return view
}

func (v *apiView) address() string { return v.server.Listener.Addr().String() }

func (v *apiView) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.server.Certificate().Raw})
}

// closeIdle closes a transport's idle connections, however it is wrapped.
func closeIdle(transport http.RoundTripper) {
	client := http.Client{Transport: transport}
	client.CloseIdleConnections()
}
