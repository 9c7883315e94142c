// Package ledger remembers the cards of a node across restarts, upgrades and reboots.
package ledger
