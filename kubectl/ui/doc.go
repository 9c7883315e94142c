// Package ui serves the page of kubectl accelerator ui: the cards of all nodes, in a browser on the same machine.
//
//	board := ui.NewBoard("my-cluster")
//	go board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error { return f.Follow(ctx, nil, report) })
//	ui.Serve(ctx, listener, board, token)
//
// # Who may read it
//
// Every program on the machine can connect to the address, and so can a page of another site in the user's browser. So
// each path begins with a random token, and [Handler] refuses requests with another Host or with a foreign Origin. It
// never changes anything. The page does not load anything from other hosts, and it shows what nodes answer only as
// text.
//
// # How it follows changes
//
// [Board] keeps each node's latest answer. The page receives the changes as server-sent events, at most four times per
// second, and requests a node's details when it shows them. The nodes are not followed while no page is open, or while
// all pages are in hidden tabs. A slow page skips answers, but always gets the latest one.
package ui
