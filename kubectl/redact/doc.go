// Package redact removes from a support bundle what must not be passed on: secrets, texts that people have written, and
// the names of pods, namespaces and containers.
//
//	r := redact.New("worker-3")
//	text, err := r.JSON(redact.State, out) // what the plugin printed
//	text = r.Log(log)
//
// The package does not search for secrets. Instead, a [Shape] lists the keys that are kept, and the form that each
// value must have: a number, one of several words, a PCI address. Keys that are not in the shape are left out, and a
// text of another form is replaced with [Removed]. A name gets the same alias in the whole bundle, such as pod-1, so
// the bundle still shows which device belongs to which pod. Of an error's text, only phrases from a fixed list are
// kept, such as "connection refused".
//
// A [Redactor] remembers the aliases. It must be used by one goroutine only, and does not block.
package redact
