package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

func newPush() *cobra.Command {
	var s settings
	var file string
	var ref registry.Reference
	cmd := &cobra.Command{
		Use:   "push FILE REGISTRY/NAME[:TAG]",
		Short: "Push a bitstream to a registry",
		Long: `Push a bitstream to an OCI registry, with its IDs as annotations. The command first
checks the whole file, the same way "accelerator-fpga info" does. The default TAG is
"latest". If the registry already has the file, it isn't sent again. The command prints
the digest, which you can use to pull exactly this bitstream.

For credentials and proxies, see "accelerator-fpga pull --help".`,
		Example: `  accelerator-fpga push nlb_400.gbs registry.example.com/fpga/nlb:1.0
  accelerator-fpga push -o json nlb_400.gbs registry.example.com/fpga/nlb:1.0 | jq -r .digest`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("FILE and REFERENCE: found %d, want two", len(args))
			}
			file = args[0]
			var err error
			if ref, err = transfer.ParseReference(args[1]); err != nil {
				return err
			}
			if _, err := ref.Digest(); err == nil {
				return fmt.Errorf("found digest %s, want a tag, because the manifest determines the digest", ref.Reference)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := programming.Open(file)
			if err != nil {
				return asFailure(err)
			}
			defer b.Close()
			c, ctx, end, err := s.client(cmd, "push", ref)
			if err != nil {
				return asFailure(err)
			}
			defer end()
			if err := b.Check(ctx); err != nil {
				return asFailure(err)
			}
			digest, err := c.Push(ctx, ref, b)
			if err != nil {
				return asFailure(transfer.Explain(ref, err))
			}
			end()
			return asFailure(s.print(cmd.OutOrStdout(), rowOf(ref, digest.String(), b), fmt.Sprintf("pushed %s@%s", ref, digest)))
		},
	}
	s.addTo(cmd)
	return cmd
}
