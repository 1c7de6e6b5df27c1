package kubetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
)

var functionList = schema.GroupVersionKind{Group: "workers.pgflow.dev", Version: "v1alpha1", Kind: "WorkerFunctionList"}

// One API server for all: it takes ten seconds and most of a core to start.
var env *kubetest.Env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	begun := time.Now()
	if env, err = kubetest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("started in %v\n", time.Since(begun))
	code := m.Run()
	begun = time.Now()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("stopped in %v\n", time.Since(begun))
	return code
}

// The operator may do what config/rbac says and nothing else.
func TestOperatorHasItsOwnPermissionsOnly(t *testing.T) {
	g := NewWithT(t)
	for _, namespace := range []string{"first", "second"} {
		cfg, err := env.OperatorConfig(t.Context(), namespace)
		g.Expect(err).NotTo(HaveOccurred())
		operator, err := client.New(cfg, client.Options{})
		g.Expect(err).NotTo(HaveOccurred())

		functions := &metav1.PartialObjectMetadataList{}
		functions.SetGroupVersionKind(functionList)
		g.Expect(operator.List(t.Context(), functions)).To(Succeed())

		err = operator.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "third"}})
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "making a namespace: %v", err)
	}
}

// A token and an object outlive a restart of the API server, under the same address.
func TestAPIServerComesBackAsTheSame(t *testing.T) {
	g := NewWithT(t)
	cfg, err := env.OperatorConfig(t.Context(), "restart")
	g.Expect(err).NotTo(HaveOccurred())
	operator, err := client.NewWithWatch(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	functions := &metav1.PartialObjectMetadataList{}
	functions.SetGroupVersionKind(functionList)
	watch, err := operator.Watch(t.Context(), functions)
	g.Expect(err).NotTo(HaveOccurred())
	defer watch.Stop()

	begun := time.Now()
	g.Expect(env.StopAPIServer()).To(Succeed())
	t.Logf("stopped in %v with a watch open", time.Since(begun))
	g.Expect(operator.List(t.Context(), functions)).NotTo(Succeed())
	g.Eventually(watch.ResultChan()).Should(BeClosed())

	begun = time.Now()
	g.Expect(env.StartAPIServer()).To(Succeed())
	t.Logf("started in %v", time.Since(begun))
	g.Eventually(func() error { return operator.List(t.Context(), functions) }).WithTimeout(20 * time.Second).Should(Succeed())
}

func TestKubectlUsesTheKubeconfig(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(env.WriteKubeconfig(env.Config, path)).To(Succeed())

	output, err := exec.CommandContext(t.Context(), env.Kubectl(), "--kubeconfig", path, "get", "wfn").CombinedOutput()

	g.Expect(err).NotTo(HaveOccurred(), "%s", output)
	g.Expect(string(output)).To(ContainSubstring("No resources found in default namespace"))
}
