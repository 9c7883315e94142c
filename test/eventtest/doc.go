// Package eventtest checks log lines against the catalogue of package logevent. Each line must have one
// declared event, one of the event's levels, and the required and no undeclared fields of the event,
// each once and with its type. It is for tests only. It owns no state except that of a core.
package eventtest
