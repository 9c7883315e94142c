// Package event is the vocabulary of the log: every event name and every field
// that a log line may carry is declared here, once, so that a name in the log
// means the same wherever it stands. It owns no state.
//
// Messages are constant and in the past tense; what varies is in fields:
//
//	log.Info("device added", event.DeviceAdded, event.Device(id), event.Reasons(r))
package event
