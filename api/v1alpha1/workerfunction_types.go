package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkerFunction mirrors one registration of a pgflow worker function, and asks the operator to keep a worker of
// it started.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wfn,categories=pgflow
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Function",type=string,priority=1,JSONPath=`.spec.functionName`
// +kubebuilder:printcolumn:name="Worker",type=string,priority=1,JSONPath=`.status.worker.id`
// +kubebuilder:printcolumn:name="Since",type=date,priority=1,JSONPath=`.status.worker.startedAt`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.invocation.expiresAt`,description="When the pending invocation expires."
// +kubebuilder:printcolumn:name="Outcome",type=string,priority=1,JSONPath=`.status.lastOutcome.outcome`,description="How the last invocation ended."
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type WorkerFunction struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which registration is meant and what is wanted of it. It may be left out: then it is the function
	// with this object's name, in the operator's own database, with nothing changed in its row.
	// ---
	// The default matters beyond convenience: it makes a spec always present, so that the rule against changing
	// identity has an old spec to compare with.
	//
	// +optional
	// +kubebuilder:default={}
	Spec WorkerFunctionSpec `json:"spec,omitzero"`

	// Status is what the operator last saw.
	//
	// +optional
	Status WorkerFunctionStatus `json:"status,omitzero"`
}

// FunctionName returns the name of the pgflow function that the object stands for: spec.functionName, or the
// object's own name where that is not set.
func (w *WorkerFunction) FunctionName() string {
	if w.Spec.FunctionName != "" {
		return w.Spec.FunctionName
	}
	return w.Name
}

// WorkerFunctionList is a list of WorkerFunctions.
//
// +kubebuilder:object:root=true
type WorkerFunctionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkerFunction `json:"items"`
}
