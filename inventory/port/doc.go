// Package port reads what the families dfl and opae have in common: PCI cards
// with ports and a management engine (FME) below them in sysfs.
//
// A [Layout] says where a driver puts them; it lists a host's cards and reads
// one. [Read] reads one port: identity, node and health. The health files and
// what their values mean are a table (health.go): a row more is a file or a bit
// more that is judged.
//
// The package owns no state and remembers nothing between two readings. Listing
// cards reads directories and links only. Reading one may block for as long as
// the hardware behind an attribute pleases.
package port
