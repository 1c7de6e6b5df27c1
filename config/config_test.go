// Package config_test tries the manifests of this directory on a real API server.
package config_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/yaml"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
)

// installNamespace is the documented namespace of an installation.
const installNamespace = "supabase"

// TestManifests has one API server for all that needs one.
func TestManifests(t *testing.T) {
	env, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := client.New(env.Config, client.Options{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.OperatorConfig(t.Context(), installNamespace); err != nil {
		t.Fatal(err)
	}
	t.Run("permissions", func(t *testing.T) { testPermissions(t, admin) })
	t.Run("pod security", func(t *testing.T) { testPodSecurity(t, admin) })
	t.Run("accepted", func(t *testing.T) { testAccepted(t, admin) })
}

// testPermissions asks the API server what the operator's ServiceAccount may do.
func testPermissions(t *testing.T, admin client.Client) {
	const anywhere = "some-namespace"
	for _, c := range []struct {
		namespace, group, resource string
		verbs                      []string
	}{
		{anywhere, "workers.pgflow.dev", "workerfunctions", []string{"get", "list", "watch", "patch"}},
		{anywhere, "workers.pgflow.dev", "workerfunctions/status", []string{"patch"}},
		{anywhere, "", "secrets", []string{"get", "list", "watch"}},
		{installNamespace, "", "secrets", []string{"get", "list", "watch"}},
		{anywhere, "events.k8s.io", "events", []string{"create", "patch"}},
		{anywhere, "", "events", nil},
		{installNamespace, "", "events", []string{"create", "patch"}},
		{anywhere, "coordination.k8s.io", "leases", nil},
		{installNamespace, "coordination.k8s.io", "leases", []string{"get", "create", "update"}},
		{"", "authentication.k8s.io", "tokenreviews", []string{"create"}},
		{"", "authorization.k8s.io", "subjectaccessreviews", []string{"create"}},
		{installNamespace, "", "pods", nil},
		{installNamespace, "", "pods/exec", nil},
		{installNamespace, "", "configmaps", nil},
		{installNamespace, "", "serviceaccounts/token", nil},
		{installNamespace, "apps", "deployments", nil},
		{"", "", "namespaces", nil},
		{"", "rbac.authorization.k8s.io", "clusterrolebindings", nil},
	} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			resource, subresource, _ := strings.Cut(c.resource, "/")
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + installNamespace + ":pgflow-operator",
				// As the API server sees a ServiceAccount: the groups may have rights too.
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + installNamespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: c.namespace, Verb: verb, Group: c.group, Resource: resource, Subresource: subresource,
				},
			}}
			if err := admin.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if want := slices.Contains(c.verbs, verb); review.Status.Allowed != want {
				t.Errorf("%s %s.%s in %q: allowed %t, want %t", verb, c.resource, c.group, c.namespace, review.Status.Allowed, want)
			}
		}
	}
}

// testPodSecurity creates the Pods that the Deployment and the Job would, where only restricted ones are admitted.
func testPodSecurity(t *testing.T, admin client.Client) {
	const name = "restricted"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	typed(t, "manager/deployment.yaml", &deployment)
	var job batchv1.Job
	typed(t, "migrate/job.yaml", &job)
	for file, template := range map[string]corev1.PodTemplateSpec{
		"manager/deployment.yaml": deployment.Spec.Template, "migrate/job.yaml": job.Spec.Template,
	} {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.GenerateName = name, "test-"
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, container := range template.Spec.Containers {
			if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Errorf("%s: the root file system of %s can be written", file, container.Name)
			}
		}
	}
}

// testAccepted applies every manifest that kustomize would.
func testAccepted(t *testing.T, admin client.Client) {
	for _, file := range manifests(t) {
		for _, object := range objects(t, file) {
			if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object),
				client.DryRunAll, client.FieldOwner("test"), client.ForceOwnership); err != nil {
				t.Errorf("%s: %s %s: %v", file, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// TestKustomizations finds manifests that no kustomization names, and names without a manifest.
func TestKustomizations(t *testing.T) {
	t.Parallel()
	for _, file := range manifests(t) {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".yaml" && filepath.Base(path) != kustomization && !slices.Contains(manifests(t), path) {
			t.Errorf("%s is in no kustomization", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSamples holds the samples to what they promise.
func TestSamples(t *testing.T) {
	t.Parallel()
	found := 0
	for _, file := range manifests(t) {
		if filepath.Dir(file) != "samples" {
			continue
		}
		for _, object := range objects(t, file) {
			if object.GetKind() != "WorkerFunction" {
				continue
			}
			found++
			if enabled, _, _ := unstructured.NestedBool(object.Object, "spec", "enabled"); !enabled {
				t.Errorf("%s: %s does not set enabled: true", file, object.GetName())
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "# Edit before applying:") {
			t.Errorf("%s does not say what to edit", file)
		}
	}
	if found < 2 {
		t.Errorf("found %d samples, want one with the operator's set and one with its own", found)
	}
}

const kustomization = "kustomization.yaml"

// manifests returns the files that the kustomizations of this directory name.
func manifests(t *testing.T) []string {
	t.Helper()
	kustomizations, err := filepath.Glob("*/" + kustomization)
	if err != nil || len(kustomizations) == 0 {
		t.Fatalf("no kustomizations: %v", err)
	}
	var files []string
	for _, path := range kustomizations {
		var k struct {
			Resources []string `json:"resources"`
		}
		typed(t, path, &k)
		for _, resource := range k.Resources {
			if filepath.Ext(resource) == ".yaml" {
				files = append(files, filepath.Join(filepath.Dir(path), resource))
			}
		}
	}
	return files
}

// objects returns the objects of a manifest.
func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// typed reads a manifest of one object.
func typed(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := kyaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
