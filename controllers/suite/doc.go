// Package suite holds the tests of the operator as a whole: the parts that main runs, put together by controllers.Setup,
// against a real API server, a real PostgreSQL and the stand-in for the edge runtime.
//
// What holds for all of them:
//
//   - The operator has the rights of config/rbac, by a token of its ServiceAccount. The administrator's client is the
//     tests' own: what a person does with kubectl, and reading.
//   - One operator serves all specs, as in a cluster. A spec that hurts a database or a stand-in has its own; the others
//     share one and use a function each.
//   - A watch keeps every version of every object. The invariants of statuses are asserted for each of them when it
//     arrives, so after every reconcile of every spec that changed something; see invariants_test.go.
//   - No password and no key of the suite may appear in a log line, an event or a status; asserted at the end.
//   - Time passes by shifting stored times in SQL, or the operator's clock; where a spec waits, it waits for a condition.
package suite
