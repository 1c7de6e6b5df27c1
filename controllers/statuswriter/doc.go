// Package statuswriter writes the statuses of WorkerFunctions, so that no
// reconcile waits for the API server.
//
// A status that is submitted goes through three places:
//
//	Submit --> queued --> in flight --> written --> (the manager's cache)
//	             ^            |
//	             +-- failed --+   unless a newer one is queued by then
//
// Invariants:
//
//   - Per object there is at most one status queued and one in flight. A newer
//     one replaces the queued one; what fails is only queued again if nothing
//     newer is.
//   - Nothing is sent that equals what the server last had: its last answer, or
//     the cached object where that is newer. After a write whose answer was lost
//     that is not known, and whatever comes next is sent.
//   - A write replaces the whole status, so what is no longer there goes, and it
//     is meant for one UID: the status of a deleted object never lands on its
//     successor of the same name. It touches nothing but the status, so it
//     does not conflict with a person who edits the spec, and a status that
//     somebody else has written is replaced by the next one that differs.
//   - Latest never goes back: it returns what was submitted last until the cache
//     shows that or something newer.
//   - All writes together keep to a rate, so that a storm of restarts is no storm
//     on the API server; an object that fails waits longer each time.
//   - What was written is kept only until the cache is seen to have caught up.
//     For 10,000 objects that is at most one status each (some 3 KiB), of those
//     that nobody asked about since.
package statuswriter
