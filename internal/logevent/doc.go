// Package logevent declares the event names and fields of the log. Each is declared once, so that all
// lines use the same names and types. It owns no state.
//
// A new event needs a name in names.go and a row in rows.go; a new field needs a variable and a
// function in fields.go. `go test ./internal/logevent -update` then writes
// docs/log-events.md and docs/logs.schema.json. Package eventtest checks each line that a test logs.
//
// Messages are constant and in the past tense. Variable parts are in fields:
//
//	log.Info("device added", logevent.DeviceAdded, logevent.Device(id), logevent.Reasons(r))
package logevent
