package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// scanLine is the headline of a command with --scan.
const scanLine = "scan of this moment, no daemon was asked: holds, quarantine and cordons are not known"

func addScan(cmd *cobra.Command, scan *bool) {
	cmd.Flags().BoolVar(scan, "scan", false, "look without the daemon, by the settings of flags, variables and files")
}

// askFlags are the settings that have a meaning for a command that asks the daemon.
var askFlags = map[string]bool{"socket": true, "config": true, "overrides": true}

// daemonSocket returns the path of the daemon's local socket. A file of settings that is not valid
// is noted on stderr and is no error: the daemon runs on with its former settings. Flags for settings
// of the daemon are an error: they would have no effect on it.
func daemonSocket(cmd *cobra.Command, loader *config.Loader) (string, error) {
	var err error
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	newLoader().AddFlags(settings)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && settings.Lookup(f.Name) != nil && !askFlags[f.Name] {
			err = fmt.Errorf("found --%s without --scan, want both: the daemon that is asked has its own settings", f.Name)
		}
	})
	if err == nil {
		err = loader.Variables(os.LookupEnv)
	}
	if err != nil {
		return "", err
	}
	if err := loader.Load(os.LookupEnv); err != nil {
		note(cmd, "settings on disk, which are not used here: "+err.Error())
	}
	if loader.Config.Socket == "" {
		want := "want the path of the daemon's socket"
		if cmd.Flags().Lookup("scan") != nil {
			want += ", or --scan to look without the daemon"
		}
		return "", errors.New("socket: found none, " + want)
	}
	return loader.Config.Socket, nil
}

// noDaemon returns an error that names --scan as the way to go on without the daemon.
func noDaemon(err error) error {
	return fmt.Errorf("the daemon could not be asked: %w (--scan looks by itself)", err)
}

// stateLine returns the headline of the daemon's state.
func stateLine(s control.State) string {
	line := fmt.Sprintf("daemon %s since %s, mode %s", s.Version, s.Started.Local().Format(time.DateTime), s.Mode)
	if s.Settings.Hash != "" {
		line += ", settings " + s.Settings.Hash
	}
	if s.Settings.Refused != "" {
		line += "; the files on disk are refused: " + s.Settings.Refused
	}
	if len(s.Settings.Restart) > 0 {
		line += "; changed, but a restart is needed: " + strings.Join(s.Settings.Restart, ", ")
	}
	if s.Incomplete {
		line += "; not all cards have been read yet"
	}
	return terminal.Escape(line)
}

// note prints a line on stderr.
func note(cmd *cobra.Command, text string) {
	fmt.Fprintln(cmd.ErrOrStderr(), "accelerator-device-plugin: "+terminal.Escape(text))
}
