// Package deviceplugin joins package daemon and package server: it is the daemon that offers its devices through the
// device plugin API, without its command line. Its tests run the whole daemon on a simulated node, with a simulated
// kubelet; all other parts are real.
package deviceplugin
