// Package logevent declares the log's event names and fields. Each is declared once, so that all lines use the same
// names and types. It owns no state.
//
// To add an event, add a name in names.go and a row in rows.go. To add a field, add a variable and a function in
// fields.go. Then run `go test ./internal/logevent -update`, which writes docs/log-events.md and docs/logs.schema.json.
// Package eventtest checks each line that a test logs.
//
// Messages are constant and in the past tense. Variable parts are in fields:
//
//	log.Info("device added", logevent.DeviceAdded, logevent.Device(id), logevent.Reasons(r))
package logevent
