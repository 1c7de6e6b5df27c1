package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withEndpoint is a spec whose endpoint has this URL and which is right otherwise.
func withEndpoint(url string) fields {
	return fields{"endpoint": endpoint(url), "authSecretRef": ref("auth", "key")}
}

// withAuth is a spec whose key is in this Secret and which is right otherwise.
func withAuth(secret fields) fields {
	return fields{"endpoint": endpoint("http://functions"), "authSecretRef": secret}
}

var _ = Describe("spec", func() {
	DescribeTable("is accepted", func(ctx SpecContext, spec fields) {
		Expect(k8s.Create(ctx, object(spec), client.DryRunAll)).To(Succeed())
	},
		Entry("without a spec", nil),
		Entry("empty", fields{}),
		Entry("with only a name", fields{"functionName": "hello_worker"}),
		Entry("with everything", fields{
			"functionName": "hello_worker", "enabled": true, "startMode": "http", "debounce": "6s", "pendingTimeout": "60s",
			"heartbeatTimeout": "30s", "handshake": "required", "suspend": true, "deletionPolicy": "Orphan",
			"endpoint": endpoint("https://functions.example.com:8443/functions/v1/"), "authSecretRef": ref("auth", "key"),
			"databaseSecretRef": ref("database.main", "DATABASE_URL"),
		}),
		Entry("process, permissive and not enabled",
			fields{"enabled": false, "startMode": "process", "handshake": "permissive", "deletionPolicy": "Disable"}),

		Entry("a function name of letters from anywhere", fields{"functionName": "größe 工作 100%?#&;=+"}),
		Entry("a function name of dots", fields{"functionName": "..."}),
		Entry("a function name with dots in front", fields{"functionName": "..a"}),
		Entry("the longest function name", fields{"functionName": strings.Repeat("工", 512)}),

		Entry("the shortest debounce", fields{"debounce": "1s"}),
		Entry("the longest debounce", fields{"debounce": "24h"}),
		Entry("a debounce in several units", fields{"debounce": "1m30s"}),
		Entry("a debounce in milliseconds", fields{"debounce": "1500ms"}),
		Entry("a debounce with decimals", fields{"debounce": "1.5h"}),
		Entry("a debounce to the microsecond, as a client writes it back", fields{"debounce": "23h59m59.999999s"}),
		Entry("the shortest timeouts", fields{"pendingTimeout": "1s", "heartbeatTimeout": "1000ms"}),
		Entry("the longest timeouts", fields{"pendingTimeout": "1h", "heartbeatTimeout": "3600s"}),

		Entry("an endpoint with host alone", withEndpoint("http://functions")),
		Entry("an endpoint with address and port", withEndpoint("http://[fd00::1]:65535/functions/v1")),
		Entry("an endpoint with @ in its path", withEndpoint("http://functions/@scope/v1")),
		Entry("an endpoint with escapes", withEndpoint("http://functions/a%20b")),
		Entry("the longest endpoint", withEndpoint("http://f/"+strings.Repeat("a", 2048-len("http://f/")))),
		Entry("the longest Secret name and key", withAuth(ref(strings.Repeat("a", 253), strings.Repeat("K", 253)))),
	)

	DescribeTable("is refused", func(ctx SpecContext, spec fields, message string) {
		err := k8s.Create(ctx, object(spec), client.DryRunAll)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "error: %v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
		// A rule that fails to evaluate also refuses, but with words about itself.
		Expect(err).NotTo(MatchError(ContainSubstring("evaluat")))
	},
		Entry("an empty function name", fields{"functionName": ""}, "spec.functionName in body should be at least 1 chars long"),
		Entry("a function name that is .", fields{"functionName": "."}, oneSegment),
		Entry("a function name that is ..", fields{"functionName": ".."}, oneSegment),
		Entry("a function name with a slash", fields{"functionName": "a/b"}, oneSegment),
		Entry("a function name with a backslash", fields{"functionName": `a\b`}, oneSegment),
		Entry("a function name with NUL", fields{"functionName": "a\x00b"}, oneSegment),
		Entry("a function name with a line feed at its end", fields{"functionName": "a\n"}, oneSegment),
		Entry("a function name with DEL", fields{"functionName": "a\x7f"}, oneSegment),
		Entry("a function name with a C1 control character", fields{"functionName": "a\u0085"}, oneSegment),
		Entry("a function name that is too long", fields{"functionName": strings.Repeat("a", 513)}, "may not be more than 512"),

		Entry("another start mode", fields{"startMode": "cron"}, `spec.startMode: Unsupported value: "cron": supported values: "http", "process"`),
		Entry("another handshake", fields{"handshake": "none"}, `spec.handshake: Unsupported value: "none": supported values: "permissive", "required"`),
		Entry("another deletion policy", fields{"deletionPolicy": "Delete"}, `spec.deletionPolicy: Unsupported value: "Delete": supported values: "Disable", "Orphan"`),

		Entry("a tiny debounce", fields{"debounce": "999ms"}, debounceBounds),
		Entry("a debounce of nothing", fields{"debounce": "0s"}, debounceBounds),
		Entry("a negative debounce", fields{"debounce": "-6s"}, debounceBounds),
		Entry("a debounce that is too long", fields{"debounce": "24h0.000001s"}, debounceBounds),
		Entry("a debounce beyond any duration", fields{"debounce": "99999999999h"}, debounceBounds),
		Entry("a debounce just beyond any duration", fields{"debounce": "2562048h"}, debounceBounds),
		Entry("a debounce of as many digits as fit", fields{"debounce": strings.Repeat("99999h", 5)}, debounceBounds),
		Entry("a debounce finer than a microsecond", fields{"debounce": "1.0000001s"}, debounceBounds),
		Entry("a debounce in nanoseconds", fields{"debounce": "6000000000ns"}, debounceBounds),
		Entry("a debounce without unit", fields{"debounce": "6"}, debounceBounds),
		Entry("a debounce in words", fields{"debounce": "6 seconds"}, debounceBounds),
		Entry("an empty debounce", fields{"debounce": ""}, debounceBounds),
		Entry("a debounce that is a number", fields{"debounce": int64(6)}, `spec.debounce in body must be of type string`),
		Entry("a debounce that is too long a text", fields{"debounce": strings.Repeat("1s", 17)}, "may not be more than 32"),
		Entry("a tiny pending timeout", fields{"pendingTimeout": "0.999999s"}, "pendingTimeout must be a duration from 1s to 1h"),
		Entry("a pending timeout that is too long", fields{"pendingTimeout": "61m"}, "pendingTimeout must be a duration from 1s to 1h"),
		Entry("a pending timeout in words", fields{"pendingTimeout": "1 min"}, "pendingTimeout must be a duration from 1s to 1h"),
		Entry("a pending timeout that is too long a text", fields{"pendingTimeout": strings.Repeat("1s", 17)}, "may not be more than 32"),
		Entry("a heartbeat timeout that is too long a text", fields{"heartbeatTimeout": strings.Repeat("1s", 17)}, "may not be more than 32"),
		Entry("a tiny heartbeat timeout", fields{"heartbeatTimeout": "10ms"}, "heartbeatTimeout must be a duration from 1s to 1h"),
		Entry("a heartbeat timeout that is too long", fields{"heartbeatTimeout": "1h1s"}, "heartbeatTimeout must be a duration from 1s to 1h"),
		Entry("a heartbeat timeout in words", fields{"heartbeatTimeout": "long"}, "heartbeatTimeout must be a duration from 1s to 1h"),

		Entry("an endpoint without a key of its own", fields{"endpoint": endpoint("http://functions")}, together),
		Entry("a key without an endpoint of its own", fields{"authSecretRef": ref("auth", "key")}, together),
		Entry("a database without endpoint and key", fields{"databaseSecretRef": ref("database", "url")}, databaseNeeds),
		Entry("a database with a key alone",
			fields{"databaseSecretRef": ref("database", "url"), "authSecretRef": ref("auth", "key")}, databaseNeeds),
		Entry("a database with an endpoint alone",
			fields{"databaseSecretRef": ref("database", "url"), "endpoint": endpoint("http://functions")}, together),

		Entry("an endpoint that says nothing", fields{"endpoint": fields{}, "authSecretRef": ref("auth", "key")}, "spec.endpoint.url: Required value"),
		Entry("an empty endpoint", withEndpoint(""), "spec.endpoint.url in body should be at least 1 chars long"),
		Entry("an endpoint without scheme", withEndpoint("functions:8000/functions/v1"), anHTTPURL),
		Entry("an endpoint that is a path", withEndpoint("/functions/v1"), anHTTPURL),
		Entry("an endpoint of another scheme", withEndpoint("ftp://functions"), anHTTPURL),
		Entry("an endpoint without host", withEndpoint("http:///functions/v1"), anHTTPURL),
		Entry("an endpoint with a port alone", withEndpoint("http://:8000"), anHTTPURL),
		Entry("an endpoint that is opaque", withEndpoint("http:functions"), anHTTPURL),
		Entry("an endpoint with a space in its host", withEndpoint("http://a b"), anHTTPURL),
		Entry("an endpoint with a backslash in its host", withEndpoint(`http://a\@b`), anHTTPURL),
		Entry("an endpoint with a line feed", withEndpoint("http://functions\n"), anHTTPURL),
		Entry("an endpoint with a port in words", withEndpoint("http://functions:http"), anHTTPURL),
		Entry("an endpoint with port 0", withEndpoint("http://functions:0"), aPort),
		Entry("an endpoint with port 65536", withEndpoint("http://functions:65536"), aPort),
		Entry("an endpoint with a port beyond numbers", withEndpoint("http://functions:99999999999999999999"), aPort),
		Entry("an endpoint with a user", withEndpoint("http://someone@functions"), noUser),
		Entry("an endpoint with user and password", withEndpoint("https://someone:secret@functions:8000/v1"), noUser),
		Entry("an endpoint with an empty user", withEndpoint("https://@functions"), noUser),
		Entry("an endpoint with a query", withEndpoint("http://functions/v1?apikey=secret"), noQuery),
		Entry("an endpoint with an empty query", withEndpoint("http://functions/v1?"), noQuery),
		Entry("an endpoint with a fragment", withEndpoint("http://functions/v1#top"), noQuery),
		Entry("an endpoint that is too long", withEndpoint("http://f/"+strings.Repeat("a", 2048)), "may not be more than 2048"),

		Entry("a key without Secret", withAuth(fields{"key": "key"}), "spec.authSecretRef.name: Required value"),
		Entry("a Secret without key", withAuth(fields{"name": "auth"}), "spec.authSecretRef.key: Required value"),
		Entry("an empty Secret name", withAuth(ref("", "key")), "spec.authSecretRef.name in body should be at least 1 chars long"),
		Entry("an empty key", withAuth(ref("auth", "")), "spec.authSecretRef.key in body should be at least 1 chars long"),
		Entry("a Secret of another namespace", withAuth(ref("kube-system/auth", "key")), "name must be the name of a Secret in this object's namespace"),
		Entry("a Secret with a path for a name", withAuth(ref("../auth", "key")), "name must be the name of a Secret in this object's namespace"),
		Entry("a key with a slash", withAuth(ref("auth", "a/b")), "key must be a key of the Secret's data"),
		Entry("a Secret name that is too long", withAuth(ref(strings.Repeat("a", 254), "key")), "may not be more than 253"),
		Entry("a key that is too long", withAuth(ref("auth", strings.Repeat("k", 254))), "may not be more than 253"),
		Entry("a database Secret of another namespace",
			fields{"databaseSecretRef": ref("other/database", "url"), "endpoint": endpoint("http://functions"), "authSecretRef": ref("auth", "key")},
			"spec.databaseSecretRef.name: Invalid value"),
	)

	It("knows no other fields", func(ctx SpecContext) {
		withNamespace := ref("auth", "key")
		withNamespace["namespace"] = "kube-system"
		err := k8s.Create(ctx, object(withAuth(withNamespace)), client.DryRunAll)
		Expect(err).To(MatchError(ContainSubstring(`unknown field "spec.authSecretRef.namespace"`)))
	})

	It("has no default but the deletion policy", func(ctx SpecContext) {
		for _, spec := range []fields{nil, {}} {
			u := object(spec)
			Expect(k8s.Create(ctx, u, client.DryRunAll)).To(Succeed())
			Expect(u.Object["spec"]).To(Equal(fields{"deletionPolicy": "Disable"}))
		}
	})
})

const (
	oneSegment     = "functionName must be one segment of a URL path"
	debounceBounds = "debounce must be a duration from 1s to 24h, written like 6s, 1m30s or 1.5s"
	together       = "endpoint and authSecretRef go together, set both or neither: a key is only ever sent to the endpoint it belongs to"
	databaseNeeds  = "databaseSecretRef needs endpoint and authSecretRef as well: the operator's own endpoint and key belong to the operator's own database"
	anHTTPURL      = "endpoint.url must be an http:// or https:// URL with a host"
	aPort          = "the port of endpoint.url must be from 1 to 65535"
	noUser         = "endpoint.url must not contain a user or password: put the key into a Secret"
	noQuery        = "endpoint.url must have no query and no fragment"
)
