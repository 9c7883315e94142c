// Package registry tests accelerator-fpga pull and push with a real registry: CNCF's distribution, built from its Go
// module. See run.sh.
package registry
