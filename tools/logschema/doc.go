// Package logschema contains only tests. They check docs/logs.schema.json with a JSON Schema
// validator, and log lines of the daemon against the schema. The validator must not be a
// dependency of the daemon's module; this module has it already, as a dependency of helm.
package logschema
