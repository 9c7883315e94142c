// Package redact removes from a support bundle what does not belong into other hands: secrets, texts that people have written,
// and the names of pods, namespaces and containers.
//
//	r := redact.New("worker-3")
//	text, err := r.JSON(redact.State, out) // what the plugin printed
//	text = r.Log(log)
//
// It does not search for secrets. A [Shape] lists the keys that are kept, and the form that each value must have: a number, one
// of several words, a PCI address. A key that is not in the shape is left out, and a text of another form is replaced by
// [Removed]. Names become the same alias in the whole bundle, such as pod-1, so that it still shows which device belongs to
// which pod. Of the text of an error, only phrases of a fixed list are kept, such as "connection refused".
//
// A [Redactor] remembers the aliases. It belongs to one goroutine, and does not block.
package redact
