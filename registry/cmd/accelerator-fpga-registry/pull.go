package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

func newPull() *cobra.Command {
	var s settings
	var store string
	var keyFile string
	var o transfer.Options
	var ref registry.Reference
	cmd := &cobra.Command{
		Use:   "pull REGISTRY/NAME[:TAG|@sha256:DIGEST]",
		Short: "Pull a bitstream from a registry into the store",
		Long: `Pull a bitstream from an OCI registry, and install it in the store the same way
"accelerator-fpga install" does. The bitstream must match its manifest. Nothing is
downloaded if the store already has the same file. A tag can be moved to another
bitstream, but a digest always refers to the same one. The default tag is "latest".

With --key, or if the store contains a signers.pem file, the manifest must be signed by
cosign with one of the keys in that file.

If the connection is lost, the command resumes the download where it stopped. It also
resumes a pull that was interrupted before. It gives up if no data arrives for 30 s, five
times in a row. During installation, the store needs space for two copies.

The command uses Docker's credentials, from "docker login" or from a config.json in the
DOCKER_CONFIG directory. You can set a proxy with HTTPS_PROXY, HTTP_PROXY and NO_PROXY.`,
		Example: `  accelerator-fpga pull registry.example.com/fpga/nlb:1.0
  accelerator-fpga pull registry.example.com/fpga/nlb@sha256:d1ea5f34ffd6d5e16f1ab0ad1db6fd6a4b1cd0c18f2a1a4e23a2d4ac35fcd8f2
  accelerator-fpga pull --force registry.example.com/fpga/nlb:1.0                  replace an existing file
  accelerator-fpga pull --key cosign.pub registry.example.com/fpga/nlb:1.0         only with a signature
  accelerator-fpga pull --ca-file ca.pem registry.example.com/fpga/nlb:1.0         a certificate authority of your own
  accelerator-fpga pull --plain-http localhost:5000/fpga/nlb:1.0                   a registry without TLS`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("REFERENCE: found %d, want one", len(args))
			}
			var err error
			ref, err = transfer.ParseReference(args[0])
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if store == "" {
				return fmt.Errorf(`--store: found "", want a directory`)
			}
			var err error
			if o.Keys, err = readKeys(keyFile); err != nil {
				return asFailure(err)
			}
			c, ctx, end, err := s.client(cmd, "pull", ref)
			if err != nil {
				return asFailure(err)
			}
			defer end()
			p, err := c.Pull(ctx, ref, programming.Store(store), o)
			if err != nil {
				return asFailure(transfer.Explain(ref, err))
			}
			end()
			return asFailure(s.printPulled(cmd.OutOrStdout(), ref, p))
		},
	}
	s.addTo(cmd)
	cmd.Flags().StringVar(&store, "store", string(programming.DefaultStore), "`directory` with this node's bitstreams")
	cmd.Flags().StringVar(&keyFile, "key", "", "`file` with public keys (PEM); bitstreams must have a cosign signature from one of them")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace an existing file")
	return cmd
}

// readKeys reads the file that --key specifies. It returns nil if the flag isn't set.
func readKeys(path string) (signature.Keys, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	keys, err := signature.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", path, err)
	}
	return keys, nil
}

// row is the result of a pull or push in JSON. It has the same keys as the output of "accelerator-fpga install", plus
// reference and digest.
type row struct {
	Reference   string  `json:"reference"`
	Digest      string  `json:"digest"` // the manifest's digest
	Format      string  `json:"format"`
	InterfaceID string  `json:"interfaceId"`
	AFUID       string  `json:"afuId"`
	Size        int64   `json:"size"`            // size of the raw bitstream, in bytes
	Hash        string  `json:"hash,omitempty"`  // for an AOCX
	Board       *string `json:"board,omitempty"` // for an AOCX
	Path        string  `json:"path"`
	Installed   *bool   `json:"installed,omitempty"` // for pull; false if the store already had the file
}

func rowOf(ref registry.Reference, digest string, b *programming.Bitstream) row {
	r := row{Reference: ref.String(), Digest: digest, Format: b.Format, InterfaceID: b.InterfaceID, AFUID: b.AFUID, Size: b.Size, Hash: b.Hash, Path: b.Path}
	if b.Format == programming.AOCX {
		r.Board = &b.Board
	}
	return r
}

func (s *settings) printPulled(w io.Writer, ref registry.Reference, p transfer.Pulled) error {
	r := rowOf(ref, p.Digest.String(), p.Bitstream)
	r.Path, r.Installed = p.Path, &p.Installed
	text := "installed " + p.Path
	if !p.Installed {
		text = "nothing changed: the store has the same file at " + p.Path
	}
	return s.print(w, r, text)
}

// print prints a result, as JSON or as text.
func (s *settings) print(w io.Writer, r row, text string) error {
	switch {
	case s.quiet:
		return nil
	case s.output == "json":
		return terminal.WriteJSON(w, r)
	}
	_, err := fmt.Fprintln(w, terminal.Escape(text))
	return err
}
