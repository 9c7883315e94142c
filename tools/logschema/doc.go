// Package logschema contains only tests. They check docs/logs.schema.json with a JSON Schema validator, and validate
// the daemon's log lines against the schema. They are in this module because it already depends on the validator,
// through helm, and the daemon's module must not.
package logschema
