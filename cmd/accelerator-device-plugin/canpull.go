package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cmd/internal/canpull"
	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/cmd/internal/procusers"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
)

const (
	processPatience   = 2 * time.Second  // maximum time to search one process
	processesPatience = 30 * time.Second // maximum time to search all processes on the host
)

func newCanPull() *cobra.Command {
	loader := daemon.NewLoader()
	var format string
	var scan bool
	cmd := &cobra.Command{
		Use:   "can-pull ADDRESS",
		Short: "Check whether it is safe to pull a card",
		Long: `Check whether it is safe to pull a card. The command prints yes, no or unknown, and
one line for each reason, with a remedy. The exit code is 0 for yes, and 1 otherwise.

The command combines these sources:
  - the daemon: whether a new pod can get the card, and which containers use it
  - sysfs: all of the card's functions, including virtual functions
  - the kubelet's checkpoint: which pods were given one of the card's devices (not available in the DRA driver's pod)
  - /proc: which host processes have one of the card's device nodes open, under any name

The search for processes needs root on the host. In a pod that can't see the host's
processes, such as the daemon's pod, the best answer you can get for a card with
device nodes is "unknown".

With --scan the command reads cards, cordons and the kubelet's pod-resources API
itself, without the daemon.`,
		Example: `  accelerator-device-plugin can-pull 3b:00.0
  accelerator-device-plugin can-pull 3b:00.0 && echo 1 > /sys/bus/pci/devices/0000:3b:00.0/remove`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := parseJSON(format)
			if err != nil {
				return err
			}
			address, err := sysfs.ParseAddress(args[0])
			if err != nil {
				return fmt.Errorf("ADDRESS: found %q, %w", args[0], err)
			}
			if scan {
				_, err = load(loader)
			} else {
				_, err = daemonSocket(cmd, loader)
			}
			if err != nil {
				return err
			}
			answer := canpull.Judge(pullFacts(cmd.Context(), loader.Config, address, scan, "/proc"))
			if err := printAnswer(cmd.OutOrStdout(), answer, asJSON); err != nil {
				return asFailure(err)
			}
			if answer.Answer != canpull.Yes {
				return failure{error: errors.New(answer.Answer), logged: true}
			}
			return nil
		},
	}
	addScan(cmd, loader, &scan)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output `format`: json (default: text)")
	return cmd
}

// pullFacts collects the facts about a card. It searches the node's processes last, because no new process can open the
// card any more if the other facts show that it is cordoned and free.
func pullFacts(ctx context.Context, cfg config.Config, address string, scan bool, procfs string) (f canpull.Facts) {
	f = canpull.Facts{Address: address}
	f.Card, f.CardErr = canpull.Read(cfg.SysfsRoot, address)
	defer func() {
		if again, err := canpull.Read(cfg.SysfsRoot, address); f.CardErr == nil && (err != nil || !reflect.DeepEqual(again, f.Card)) {
			f.CardErr = errors.New("its functions or nodes changed during the check: check again")
		}
	}()
	if scan {
		scanPull(ctx, cfg, &f)
	} else {
		state, err := control.Dial(cfg.Socket).State(ctx)
		f.Rows, f.RowsErr, f.Cordons, f.HoldersErr, f.DRA = state.Devices, err, state.Cordons, state.HoldersError, state.API == control.DRA
		cfg.KubeletDir = cmp.Or(state.KubeletDir, cfg.KubeletDir)
	}
	f.Given, f.GivenErr = podsGiven(cfg.KubeletDir)
	if f.DRA && errors.Is(f.GivenErr, fs.ErrNotExist) { // the driver's pod doesn't have the checkpoint, but Rows covers prepared claims
		f.GivenErr = nil
	}
	if f.CardErr != nil || len(f.Card.Numbers())+len(f.Card.Files()) == 0 {
		return f
	}
	proc := procusers.Proc{Root: procfs, Patience: processPatience}
	if f.ProcessesErr = proc.CheckAccess(); f.ProcessesErr == nil {
		ctx, cancel := context.WithTimeoutCause(ctx, processesPatience, fmt.Errorf("the search took longer than %s", processesPatience))
		defer cancel()
		f.Processes, f.ProcessesErr = proc.Find(ctx, f.Card.Numbers(), f.Card.Files()...)
	}
	return f
}

// scanPull collects the facts that the daemon would report, but without asking the daemon.
func scanPull(ctx context.Context, cfg config.Config, f *canpull.Facts) {
	cordons, err := readCordons(cfg.StateDir)
	if err != nil {
		f.RowsErr = err
	} else {
		f.Cordons = cordons
		watched := daemon.Watching(cfg, metrics.New(buildVersion()))
		watched.Policy = daemon.DevicePolicy(cfg, cordons)
		named := deviceplugin.AskOnce(ctx, cfg, daemon.OfferNaming(cfg).Owns)
		if named.Err != nil { // it isn't known whether a device node is in use
			f.HoldersErr = named.Err.Error()
		} else {
			watched.Holders = func(context.Context) inventory.Holdings { return named }
		}
		var snapshot inventory.Snapshot
		snapshot, f.RowsErr = deviceplugin.ScanOnce(ctx, cfg, watched)
		f.Rows = view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, HostSys: cfg.HostSysfsRoot, Cordons: cordons}.Rows()
	}
	// Accept all resource names, because the daemon's settings may differ from this command's.
	use := deviceplugin.AskOnce(ctx, cfg, func(string, string) bool { return true })
	if use.Err != nil {
		f.HoldersErr = use.Err.Error()
		return
	}
	f.Holders = map[string][]string{}
	for id, holdings := range use.Of {
		for _, h := range holdings {
			f.Holders[id] = append(f.Holders[id], h.Holders...)
		}
	}
	for i := range f.Rows {
		if !use.Awaiting {
			f.Rows[i].Held = new(bool)
		}
	}
}

// podsGiven returns the UIDs of the pods in the kubelet's checkpoint, keyed by device. It leaves out pods that no
// longer have a directory, because they have ended. If it can't see the pods' directories, as in the daemon's pod, it
// returns all pods.
func podsGiven(kubeletDir string) (map[string][]string, error) {
	if err := sysfs.CheckDir(kubeletDir); err != nil {
		return nil, err
	}
	record, err := new(checkpoint.Reader).Read(kubeletDir)
	given := record.Pods()
	dir := filepath.Join(filepath.Dir(filepath.Clean(kubeletDir)), "pods")
	if err != nil || sysfs.CheckDir(dir) != nil {
		return given, err
	}
	for id, uids := range given {
		given[id] = slices.DeleteFunc(uids, func(uid string) bool {
			_, err := os.Lstat(filepath.Join(dir, uid))
			return filepath.IsLocal(uid) && errors.Is(err, fs.ErrNotExist)
		})
	}
	return given, nil
}

// readCordons returns the cordons in the state directory, without creating it.
func readCordons(dir string) ([]cordon.Cordon, error) {
	if _, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	book, err := cordon.Open(dir, zap.NewNop())
	if err != nil {
		return nil, err
	}
	return book.List(), nil
}

// printAnswer prints yes, no or unknown, followed by a line for each reason.
func printAnswer(w io.Writer, answer canpull.Answer, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, answer)
	}
	text := answer.Answer + "\n"
	for _, r := range answer.Reasons {
		text += terminal.Escape(r.What)
		if r.Do != "" {
			text += ": " + terminal.Escape(r.Do)
		}
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
