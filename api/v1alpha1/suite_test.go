package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
)

var (
	restConfig *rest.Config
	k8s        client.Client
)

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API v1alpha1")
}

var _ = BeforeSuite(func() {
	environment, err := kubetest.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	restConfig = environment.Config

	scheme := runtime.NewScheme()
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme, FieldValidation: "Strict"})
	Expect(err).NotTo(HaveOccurred())
})

// fields is a piece of an object as a person writes it: the typed form cannot hold what the schema has to refuse.
type fields = map[string]any

// object returns a WorkerFunction with a name of its own and this spec; a nil spec is left out.
func object(spec fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("WorkerFunction"))
	u.SetNamespace("default")
	u.SetGenerateName("test-")
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

// create stores an object for the length of the running spec.
func create(ctx SpecContext, spec fields) *unstructured.Unstructured {
	GinkgoHelper()
	u := object(spec)
	Expect(k8s.Create(ctx, u)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, u)).To(Succeed()) })
	return u
}

func ref(name, key string) fields { return fields{"name": name, "key": key} }

func endpoint(url string) fields { return fields{"url": url} }
