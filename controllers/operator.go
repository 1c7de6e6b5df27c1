package controllers

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
	"github.com/pgflow-operator/pgflow-operator/controllers/observer"
	"github.com/pgflow-operator/pgflow-operator/controllers/statuswriter"
)

// Options are what the operator can be told beside its set of credentials. The zero value is usable.
type Options struct {
	// MaxConcurrentDeliveries bounds the requests to edge functions that are under way; 0 is the dispatcher's default.
	MaxConcurrentDeliveries int
	// UnavailableAfter is how long a database may fail before that is shown; 0 is 30 s. Tests shorten it.
	UnavailableAfter time.Duration
	// Clock ends finalizers; nil is the real one. Tests move it.
	Clock clock.PassiveClock
}

// NewManager returns a manager for Setup: o with the operator's scheme, a client that never holds Secrets, and a cache
// that holds nothing of them but names and versions.
func NewManager(config *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(workersv1alpha1.AddToScheme(scheme))
	o.Scheme = scheme
	o.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
	o.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Transform: nameAndVersion}}
	// Discovery would end a process that starts while the API server is away; these are all kinds that are read.
	o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(workersv1alpha1.GroupVersion.WithKind("WorkerFunction"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		return mapper, nil
	}
	return ctrl.NewManager(config, o)
}

// nameAndVersion reduces a Secret's metadata to what the operator looks at. The rest can be large, and its annotations hold
// the Secret's content where it was made by kubectl apply.
func nameAndVersion(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return object, nil
}

// Setup puts the operator's parts together and hands them to a manager made by NewManager. The context ends the
// set-up, not the operator.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options, set credentials.Set) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	wake := &Waker{}
	databases := observer.NewRegistry(observer.Options{
		Log:              mgr.GetLogger().WithName("observer"),
		UnavailableAfter: o.UnavailableAfter,
	}, wake.Object)
	dispatcher := delivery.New(delivery.Options{
		MaxConcurrent: o.MaxConcurrentDeliveries,
		Log:           mgr.GetLogger().WithName("delivery"),
	})
	statuses := statuswriter.New(mgr.GetClient(), statuswriter.Options{Log: mgr.GetLogger().WithName("status")})

	for _, runnable := range []manager.Runnable{databases, dispatcher, statuses} {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	reconciler := &WorkerFunctionReconciler{
		Client:     mgr.GetClient(),
		Resolver:   credentials.NewResolver(set, mgr.GetAPIReader(), mgr.GetCache()),
		Databases:  databases,
		Dispatcher: dispatcher,
		Statuses:   statuses,
		Events:     mgr.GetEventRecorder("pgflow-operator"),
		Clock:      o.Clock,
		Wake:       wake,
	}
	return reconciler.SetupWithManager(ctx, mgr, set)
}
