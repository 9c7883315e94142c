// Package deviceplugin connects package daemon to package server: it is the daemon that advertises its devices through
// the device plugin API, without the command line. The package's tests run the whole daemon on a simulated node with a
// simulated kubelet; everything else is real.
package deviceplugin
