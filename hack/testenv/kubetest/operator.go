package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	rbacFolder = "config/rbac"
	fieldOwner = "kubetest"
	// tokenSeconds is how long the operator's token is valid.
	tokenSeconds = 6 * 3600
	// grantTimeout bounds the wait for the API server's authorizer to see new roles and bindings.
	grantTimeout = 30 * time.Second
)

// OperatorConfig returns what the operator connects with when it is installed in the namespace: it makes the namespace,
// installs config/rbac there and returns a configuration with a token of the ServiceAccount among it, once the API
// server honours the permissions. Installations in several namespaces do not disturb each other.
func (e *Env) OperatorConfig(ctx context.Context, namespace string) (*rest.Config, error) {
	admin, err := client.New(e.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connecting as administrator: %w", err)
	}
	err = admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("making namespace %s: %w", namespace, err)
	}
	objects, err := e.renderRBAC(ctx)
	if err != nil {
		return nil, err
	}
	var account *corev1.ServiceAccount
	for _, object := range objects {
		if err := moveTo(object, namespace); err != nil {
			return nil, err
		}
		if err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("applying %s %s of %s: %w", object.GetKind(), object.GetName(), rbacFolder, err)
		}
		if object.GetKind() == "ServiceAccount" {
			account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Namespace: namespace}}
		}
	}
	if account == nil {
		return nil, errors.New(rbacFolder + " has no ServiceAccount")
	}
	seconds := int64(tokenSeconds)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := admin.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", namespace, account.Name, err)
	}
	operator := rest.AnonymousClientConfig(e.Config)
	operator.BearerToken = token.Status.Token
	if err := awaitGrants(ctx, operator, objects, namespace); err != nil {
		return nil, err
	}
	return operator, nil
}

// renderRBAC returns the objects of config/rbac as kubectl would apply them.
func (e *Env) renderRBAC(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, e.Kubectl(), "kustomize", filepath.Join(e.root, rbacFolder)) //nolint:gosec // our own
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w: %s", rbacFolder, err, stderr.Bytes())
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(output), len(output))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what %s renders to: %w", rbacFolder, err)
		}
		objects = append(objects, object)
	}
}

// moveTo puts an object into the namespace, as kustomize's namespace transformer would. A ClusterRoleBinding gets
// the namespace into its name: there is one for each installation.
func moveTo(object *unstructured.Unstructured, namespace string) error {
	switch object.GetKind() {
	case "ClusterRole":
		return nil
	case "ClusterRoleBinding":
		object.SetName(object.GetName() + "-" + namespace)
	default:
		object.SetNamespace(namespace)
	}
	subjects, found, err := unstructured.NestedSlice(object.Object, "subjects")
	if err != nil || !found {
		return err
	}
	for _, subject := range subjects {
		if fields, ok := subject.(map[string]any); ok && fields["kind"] == "ServiceAccount" {
			fields["namespace"] = namespace
		}
	}
	return unstructured.SetNestedSlice(object.Object, subjects, "subjects")
}

// awaitGrants waits until the first rule of every role that is bound here works. The authorizer learns of roles and bindings
// through watches of its own, each a little later than the answer to the request that made it.
func awaitGrants(ctx context.Context, operator *rest.Config, objects []*unstructured.Unstructured, namespace string) error {
	self, err := client.New(operator, client.Options{})
	if err != nil {
		return fmt.Errorf("connecting as the operator: %w", err)
	}
	bound := map[string]bool{}
	for _, object := range objects {
		kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		bound[kind+"/"+name] = true
	}
	for _, object := range objects {
		if !bound[object.GetKind()+"/"+object.GetName()] {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if len(role.Rules) == 0 || len(role.Rules[0].Resources) == 0 {
			return fmt.Errorf("%s %s of %s does not begin with a rule about resources", object.GetKind(), object.GetName(), rbacFolder)
		}
		rule := role.Rules[0]
		question := authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
		}}
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, grantTimeout, true, func(ctx context.Context) (bool, error) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: question}
			err := self.Create(ctx, review)
			return review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("%s %s is not honoured %v after it was applied: %w", object.GetKind(), object.GetName(), grantTimeout, err)
		}
	}
	return nil
}
