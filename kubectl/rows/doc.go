// Package rows turns nodes' answers into rows, and rows into tables. A row is a JSON object, as printed by -o json. The
// package owns no state, and its functions block only while they write.
package rows
