// Package logschema holds tests only: they check docs/logs.schema.json with a real
// validator, and lines of the daemon with it. They stand here because the validator
// has no place in the go.mod of the daemon; the helm of the chart's tests brings it
// along anyway.
package logschema
