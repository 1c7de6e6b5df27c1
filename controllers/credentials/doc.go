// Package credentials finds out with which database connection, endpoint and
// key a WorkerFunction is served, and whose they are.
//
// The operator's own database, endpoint and key are one set. An object uses
// the set, where its namespace may, or brings its own:
//
//	spec                                     database    endpoint    key
//	nothing                                  the set's   the set's   the set's
//	endpoint, authSecretRef                  the set's   its own     its own
//	endpoint, authSecretRef, databaseSecretRef  its own  its own     its own
//	any other combination                    refused
//
// Invariants:
//
//   - The operator's key is only ever paired with the operator's endpoint, and
//     an object's key with the object's. CEL refuses other combinations at
//     apply; here they are refused again, because this is where a mistake would
//     cost a key.
//   - An object's references lead to Secrets of its own namespace only, the
//     set's to Secrets of the operator's.
//   - A namespace that may not use the set gets nothing of it.
//   - Secrets are read one by one, live, and only when the metadata in the
//     cache says that they have changed. That cache has the names and versions
//     of all Secrets of the cluster, and nothing else of them: no annotations,
//     where kubectl apply leaves their content. What is kept here is the keys
//     that have been read, as long as an object refers to their Secret.
//   - What a person must mend is a *Problem; any other error is the API server's
//     and temporary. Neither repeats anything of a Secret's content.
package credentials
