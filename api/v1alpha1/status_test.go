package v1alpha1_test

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// fullStatus is a status with every field set, as the operator writes it.
func fullStatus() v1alpha1.WorkerFunctionStatus {
	at := metav1.Date(2026, 12, 1, 6, 0, 0, 0, time.Local)
	return v1alpha1.WorkerFunctionStatus{
		ObservedGeneration: 3,
		Phase:              v1alpha1.PhasePending,
		Registration: &v1alpha1.RegistrationStatus{
			// Beyond the spec's bounds: what the database holds is shown, whatever it is.
			Enabled: true, StartMode: "mode of a later pgflow", Debounce: metav1.Duration{Duration: 48 * time.Hour},
			PendingTimeout:   metav1.Duration{Duration: time.Minute},
			HeartbeatTimeout: metav1.Duration{Duration: 30 * time.Second}, Handshake: "permissive", TakesPart: true,
		},
		Applied: &v1alpha1.Mirrored{
			Enabled: new(true), StartMode: ptr.To(v1alpha1.StartModeHTTP), Handshake: ptr.To(v1alpha1.HandshakePermissive),
			Debounce:         &metav1.Duration{Duration: 24*time.Hour - time.Microsecond},
			PendingTimeout:   &metav1.Duration{Duration: time.Hour},
			HeartbeatTimeout: &metav1.Duration{Duration: time.Second + time.Microsecond},
		},
		Invocation: &v1alpha1.InvocationStatus{
			ID: "11111111-1111-4111-8111-111111111111", ExpiresAt: at, LastHTTPStatus: ptr.To[int32](503),
		},
		Worker: &v1alpha1.WorkerStatus{ID: "22222222-2222-4222-8222-222222222222", StartedAt: at, Verified: true},
		LastOutcome: &v1alpha1.LastOutcome{
			InvocationID: "33333333-3333-4333-8333-333333333333", Outcome: v1alpha1.OutcomeDismissed,
			Reason: "auth_rejected", At: at, FailedStarts: 2,
		},
		NextAttemptAt: &at,
		Conditions: []metav1.Condition{
			{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStarting,
				Message: "waiting for the first worker", ObservedGeneration: 3, LastTransitionTime: at,
			},
			{
				Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStarting,
				ObservedGeneration: 3, LastTransitionTime: at,
			},
		},
	}
}

// storeStatus creates an object with this status.
func storeStatus(ctx SpecContext, status v1alpha1.WorkerFunctionStatus) *v1alpha1.WorkerFunction {
	GinkgoHelper()
	w := &v1alpha1.WorkerFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "test-"},
		Spec:       v1alpha1.WorkerFunctionSpec{FunctionName: "hello_worker"},
	}
	Expect(k8s.Create(ctx, w)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, w)).To(Succeed()) })
	w.Status = status
	Expect(k8s.Status().Update(ctx, w)).To(Succeed())
	return w
}

var _ = Describe("status", func() {
	It("comes back as it was written", func(ctx SpecContext) {
		w := storeStatus(ctx, fullStatus())
		var read v1alpha1.WorkerFunction
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(w), &read)).To(Succeed())
		Expect(equality.Semantic.DeepEqual(read.Status, fullStatus())).To(BeTrue(), "read: %+v", read.Status)
	})

	It("is a subresource: the object's author cannot write it, its writer cannot write the spec", func(ctx SpecContext) {
		w := storeStatus(ctx, fullStatus())
		generation := w.Generation

		w.Status.Phase = v1alpha1.PhaseReady
		Expect(k8s.Update(ctx, w)).To(Succeed())
		Expect(w.Status.Phase).To(Equal(v1alpha1.PhasePending))

		w.Spec.Suspend = true
		Expect(k8s.Status().Update(ctx, w)).To(Succeed())
		Expect(w.Spec.Suspend).To(BeFalse())
		Expect(w.Generation).To(Equal(generation))
	})

	DescribeTable("is refused", func(ctx SpecContext, change func(*v1alpha1.WorkerFunctionStatus), message string) {
		w := storeStatus(ctx, fullStatus())
		change(&w.Status)
		err := k8s.Status().Update(ctx, w)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "error: %v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("another phase", func(s *v1alpha1.WorkerFunctionStatus) { s.Phase = "Booting" },
			`supported values: "Process", "Disabled", "Ready", "Pending", "Retryable"`),
		Entry("another outcome", func(s *v1alpha1.WorkerFunctionStatus) { s.LastOutcome.Outcome = "lost" },
			`supported values: "accepted", "acknowledged", "dismissed", "expired", "unverified"`),
		Entry("two conditions of one type",
			func(s *v1alpha1.WorkerFunctionStatus) { s.Conditions = append(s.Conditions, s.Conditions[0]) },
			`Duplicate value: {"type":"Ready"}`),
	)

	It("has conditions that two writers can set one by one", func(ctx SpecContext) {
		w := storeStatus(ctx, fullStatus())
		u := object(nil)
		u.SetGenerateName("")
		u.SetName(w.Name)
		u.Object["status"] = fields{"conditions": []any{fields{
			"type": v1alpha1.ConditionDrifted, "status": "True", "reason": v1alpha1.ReasonValuesDiffer,
			"message": "", "lastTransitionTime": "2026-12-01T06:00:00Z",
		}}}
		Expect(k8s.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"))).To(Succeed())
		var read v1alpha1.WorkerFunction
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(w), &read)).To(Succeed())
		Expect(read.Status.Conditions).To(HaveLen(3))
	})
})

var _ = Describe("kubectl get", func() {
	It("shows which are ready, pending or retried, and why", func(ctx SpecContext) {
		w := storeStatus(ctx, fullStatus())
		table := getTable(ctx, w)

		narrow, wide := fields{}, fields{}
		for i, column := range table.ColumnDefinitions {
			if column.Priority == 0 {
				narrow[column.Name] = table.Rows[0].Cells[i]
			} else {
				wide[column.Name] = table.Rows[0].Cells[i]
			}
		}
		Expect(narrow).To(And(HaveLen(5), HaveKeyWithValue("Name", w.Name), HaveKeyWithValue("Ready", "False"),
			HaveKeyWithValue("Phase", "Pending"), HaveKeyWithValue("Reason", "Starting"), HaveKey("Age")))
		Expect(wide).To(And(HaveLen(6), HaveKeyWithValue("Function", "hello_worker"),
			HaveKeyWithValue("Worker", w.Status.Worker.ID), HaveKey("Since"),
			HaveKeyWithValue("Expires", w.Status.Invocation.ExpiresAt.UTC().Format(time.RFC3339)),
			HaveKeyWithValue("Outcome", "dismissed"), HaveKeyWithValue("Message", "waiting for the first worker")))
	})

	It("finds them by short name and category", func(ctx SpecContext) {
		raw, err := restClient().Get().AbsPath("/apis/workers.pgflow.dev/v1alpha1").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		var resources metav1.APIResourceList
		Expect(json.Unmarshal(raw, &resources)).To(Succeed())
		Expect(resources.APIResources[0].ShortNames).To(Equal([]string{"wfn"}))
		Expect(resources.APIResources[0].Categories).To(Equal([]string{"pgflow"}))
		Expect(resources.APIResources[0].Namespaced).To(BeTrue())
	})
})

// getTable returns what kubectl prints of one object.
func getTable(ctx SpecContext, w *v1alpha1.WorkerFunction) *metav1.Table {
	GinkgoHelper()
	raw, err := restClient().Get().Namespace(w.Namespace).Resource("workerfunctions").Name(w.Name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	table := &metav1.Table{}
	Expect(json.Unmarshal(raw, table)).To(Succeed())
	Expect(table.Rows).To(HaveLen(1))
	return table
}

func restClient() *rest.RESTClient {
	GinkgoHelper()
	config := rest.CopyConfig(restConfig)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	return c
}

var _ = Describe("WorkerFunction", func() {
	It("is named after its object unless it has a function name", func() {
		w := &v1alpha1.WorkerFunction{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
		Expect(w.FunctionName()).To(Equal("hello"))
		w.Spec.FunctionName = "hello_worker"
		Expect(w.FunctionName()).To(Equal("hello_worker"))
	})

	It("writes nothing that is not set", func() {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.WorkerFunction{})
		Expect(err).NotTo(HaveOccurred())
		Expect((&unstructured.Unstructured{Object: u}).Object).NotTo(Or(HaveKey("spec"), HaveKey("status")))
	})
})
