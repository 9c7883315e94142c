// Package logevent declares the names and fields of log events. Each of them is declared only once, so that all lines
// use the same names and types. The package owns no state.
//
// To add an event, add a name in names.go and a row in rows.go. To add a field, add a variable and a function in
// fields.go. Then run `go test ./internal/logevent -update`, which writes docs/log-events.md and docs/logs.schema.json.
// Package eventtest checks the lines that are logged in tests.
//
// Messages are constant and in the past tense. Anything that varies is in a field:
//
//	log.Info("device added", logevent.DeviceAdded, logevent.Device(id), logevent.Reasons(r))
package logevent
