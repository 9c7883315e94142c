// Package patient waits in tests. It waits for a condition, with a limit that a working program does not reach even on
// a busy machine, or for a time during which nothing must happen. The package is for tests only.
//
// Its functions block, and are safe for concurrent use.
package patient
