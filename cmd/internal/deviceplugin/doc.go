// Package deviceplugin joins package daemon and package server. It is the daemon that advertises its devices through
// the device plugin API, without the command line. Its tests run the whole daemon on a simulated node with a simulated
// kubelet. Everything else is real.
package deviceplugin
