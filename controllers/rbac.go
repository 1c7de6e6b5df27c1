package controllers

// What the operator may do in the API server. controller-gen makes config/rbac/role.yaml from these markers; each verb
// is here because something uses it.
//
// WorkerFunctions are read everywhere; patch is for the finalizer alone, the spec belongs to its author.
//
// +kubebuilder:rbac:groups=workers.pgflow.dev,resources=workerfunctions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=workers.pgflow.dev,resources=workerfunctions/status,verbs=patch
//
// Objects in any namespace name Secrets of that namespace. list and watch are for their metadata, so that a changed
// Secret is noticed (the API server has no narrower verb for metadata); get reads the value of a referenced one.
// Secrets are never written.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
//
// Events about WorkerFunctions.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// The metrics endpoint asks the API server who a caller is and whether it may read metrics.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Leader election, in the operator's own namespace only: its lease, and the event that says who leads, which client-go
// still writes to the core group.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=supabase,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=supabase,resources=events,verbs=create;patch
