// Package rows turns the answers of nodes into rows, and rows into tables. A row is a JSON object, as -o json prints
// it. The package owns no state, and its functions do not block, except for writing.
package rows
