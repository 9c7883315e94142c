// Package logging tests the example in deploy/logging. A real OpenTelemetry Collector ships a recording of the daemon's
// log, in the container runtime's format, to an OTLP server in the test. See run.sh.
package logging
