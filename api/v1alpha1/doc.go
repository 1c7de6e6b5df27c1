// Package v1alpha1 is the Kubernetes API of the operator: the WorkerFunction resource of group
// workers.pgflow.dev, which mirrors one registration (a row of pgflow.worker_functions).
//
// The package owns the schema, the rules that refuse a bad object at `kubectl apply`, and the words of the
// status: phases, condition types and reasons. It holds no behaviour beyond the default of a name, and depends
// on nothing of the operator.
//
// # Invariants
//
//   - Nothing is mirrored that was not asked for. The mirrored fields (see [Mirrored]) are optional and have no
//     default, so that an object which only names its function leaves the function's row as it is.
//   - An object stands for the same registration all its life. What identifies the registration,
//     spec.functionName and spec.databaseSecretRef, can be neither changed nor set nor removed later.
//   - A key goes only to the endpoint it belongs to. An object that names an endpoint names a key, and an object
//     that names a database names both; only an object that names none of these may use the operator's own set.
//   - Everything that a rule looks at is bounded in length, so that the rules' cost is bounded too.
//   - Status holds facts that change when something happens, never something that moves by itself: no
//     heartbeats, no ages. Its times are whole seconds, the resolution of the serialised form: whoever compares
//     a computed status with a stored one has to cut them first.
//
// +kubebuilder:object:generate=true
// +groupName=workers.pgflow.dev
package v1alpha1
