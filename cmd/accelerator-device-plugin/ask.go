package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// scanLine is the headline that commands print with --scan.
const scanLine = "scan without the daemon: recovery holds, quarantine and cordons are not known"

// addScan adds --scan and the flags of all settings. Flags that require --scan are hidden from the help.
func addScan(cmd *cobra.Command, loader *config.Loader, scan *bool) {
	loader.AddFlags(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = !askFlags[f.Name] })
	cmd.Flags().BoolVar(scan, "scan", false, "read the cards without the daemon, using settings from flags (see serve --help), variables and files")
}

// askFlags lists the settings that also apply to commands that query the daemon.
var askFlags = map[string]bool{"socket": true, "config": true, "overrides": true}

// daemonSocket returns the path of the daemon's local socket. An invalid settings file only causes a note on stderr,
// because the daemon itself would keep running with its old settings. Flags for the daemon's other settings are
// rejected, because they would have no effect.
func daemonSocket(cmd *cobra.Command, loader *config.Loader) (string, error) {
	var err error
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	daemon.NewLoader().AddFlags(settings)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && settings.Lookup(f.Name) != nil && !askFlags[f.Name] {
			err = fmt.Errorf("--%s: found without --scan, want both or neither: the daemon has settings of its own", f.Name)
		}
	})
	if err == nil {
		err = loader.Variables(os.LookupEnv)
	}
	if err != nil {
		return "", err
	}
	if err := loader.Load(os.LookupEnv); err != nil {
		note(cmd, "settings on disk are not valid, and not used by this command: "+err.Error())
	}
	if loader.Config.Socket == "" {
		want := "want the path of the daemon's socket"
		if cmd.Flags().Lookup("scan") != nil {
			want += ", or --scan to read the cards without the daemon"
		}
		return "", errors.New("socket: found none, " + want)
	}
	return loader.Config.Socket, nil
}

// noDaemon wraps err with a hint that --scan works without the daemon.
func noDaemon(err error) error {
	return fmt.Errorf("the daemon could not be asked: %w (--scan needs no daemon)", err)
}

// stateLine returns the headline that describes the daemon in state s.
func stateLine(s control.State) string {
	program := "daemon"
	if s.API == control.DRA {
		program = "DRA driver"
	}
	line := fmt.Sprintf("%s %s since %s, mode %s", program, s.Version, s.Started.Local().Format(time.DateTime), s.Mode)
	if s.Settings.Hash != "" {
		line += ", settings " + s.Settings.Hash
	}
	if s.Settings.Refused != "" {
		line += "; the settings on disk are refused: " + s.Settings.Refused
	}
	if len(s.Settings.Restart) > 0 {
		line += "; restart needed for changes of " + strings.Join(s.Settings.Restart, ", ")
	}
	if s.Incomplete {
		line += "; not all cards have been read yet"
	}
	return terminal.Escape(line)
}

// note prints a line to stderr.
func note(cmd *cobra.Command, text string) {
	fmt.Fprintln(cmd.ErrOrStderr(), "accelerator-device-plugin: "+terminal.Escape(text))
}
