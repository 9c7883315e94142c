// Package event is the vocabulary of the log: every event name and every field
// that a log line may carry is declared here, once, so that a name in the log
// means the same wherever it stands. It owns no state.
//
// A new event needs a name in names.go, a row in rows.go and its words for people in
// phrases.go; a new field needs a row and a func in fields.go. `go test ./internal/event
// -update` then writes docs/logs.md and docs/logs.schema.json. One test checks each call
// that logs, and package eventtest each line that a test logs.
//
// Messages are constant and in the past tense; what varies is in fields:
//
//	log.Info("device added", event.DeviceAdded, event.Device(id), event.Reasons(r))
package event
