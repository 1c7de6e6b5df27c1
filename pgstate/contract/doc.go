// Package contract holds the tests of the handshake's contract and nothing else.
//
// They are written from the protocol document alone and speak SQL, as a worker in any other language would: they use
// only the functions, the view, the columns and the SQLSTATEs that the document names, never the Go Store and never
// a helper function, index or trigger that an implementation happens to have. Where a test needs such a name (a
// stranger's index of the same name, say), it learns it by comparing the catalogue before and after installing.
//
// Each test reads as one statement of the contract. Time is moved by shifting stored times, not by sleeping; the few
// tests about waiting for locks wait for the server to say that a session waits.
package contract
