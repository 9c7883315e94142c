// Package ui serves the page of kubectl accelerator ui: the cards of all nodes, in a browser on the same machine.
//
//	board := ui.NewBoard("my-cluster")
//	go board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error { return f.Follow(ctx, nil, report) })
//	ui.Serve(ctx, listener, board, token)
//
// # Who may read it
//
// Every program on the machine can connect to the address, also a page of another site in the user's browser. So each path
// begins with a random token, and [Handler] refuses requests with another Host or with a foreign Origin. It only reads. The
// page loads nothing from elsewhere, and shows what nodes answer only as text.
//
// # How it follows changes
//
// [Board] keeps the newest answer of each node. The page gets the changes as server-sent events, at most four times a second,
// and asks for the details of a node when it shows them. While no page is open, or only in a tab that is not shown, the nodes
// are not followed. A slow page skips answers, and always gets the newest one.
package ui
