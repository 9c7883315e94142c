// Package eventtest checks log lines against the catalogue of package event: that
// each carries one declared event, at a level that this may have, with the fields
// that it must have and no others, each once and of its type. For tests only; it owns
// no state but what a core was made with.
package eventtest
