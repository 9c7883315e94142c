// Package patient waits in tests: for a condition, with a limit that no working program reaches even on a busy machine,
// or for a time in which nothing must happen. The package is for tests only.
//
// Its functions block, and are safe for concurrent use.
package patient
