// Package event is the vocabulary of the log: every event name and every field
// that a log line may carry is declared here, once, so that a name in the log
// means the same wherever it stands. It owns no state.
//
// A new event is a name in event.go, a row in events.go and its words for people in
// phrases.go, a new field a row and a func in fields.go; `go test ./internal/event
// -update` then writes docs/logs.md and docs/logs.schema.json. Tests keep to it: one
// reads each call that logs, package eventtest checks each line that a test brings about.
//
// Messages are constant and in the past tense; what varies is in fields:
//
//	log.Info("device added", event.DeviceAdded, event.Device(id), event.Reasons(r))
package event
