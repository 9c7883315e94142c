// Package eventtest checks log lines against the catalogue in package logevent. Each line must have exactly one
// declared event, and one of the event's levels. It must have all required fields of the event and no undeclared ones,
// each once and with its type. The package is for tests only. It owns no state except the state of a core.
package eventtest
