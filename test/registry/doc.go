// Package registry tests accelerator-fpga pull and push against a real registry: CNCF's distribution, built from its Go
// module. See run.sh.
package registry
