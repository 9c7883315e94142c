// Package redact removes from a support bundle everything that must not be passed on: secrets, text written by people,
// and the names of pods, namespaces and containers.
//
//	r := redact.New("worker-3")
//	text, err := r.JSON(redact.State, out) // what the plugin printed
//	text = r.Log(log)
//
// The package doesn't search for secrets. Instead, a [Shape] lists the keys that are kept, and the form that each value
// must have, such as a number, one of several words, or a PCI address. Keys that aren't in the shape are left out, and
// text with a different form is replaced with [Removed]. A name has the same alias, such as pod-1, throughout the
// bundle, so the bundle still shows which device belongs to which pod. An error's text is reduced to phrases from a
// fixed list, such as "connection refused".
//
// A [Redactor] remembers the aliases. It must be used by only one goroutine at a time, and doesn't block.
package redact
