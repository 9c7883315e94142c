// Package logschema contains only tests. They check docs/logs.schema.json with a JSON Schema validator, and validate
// log lines of the daemon against the schema. The daemon's module must not depend on the validator. This module already
// does, through helm.
package logschema
