// Package registry tests accelerator-fpga pull and push against a real registry: CNCF's Distribution, built from its Go
// module. See run.sh.
package registry
