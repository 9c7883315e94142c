// Package ui serves the kubectl accelerator ui page, which shows all nodes' cards in a browser on the same machine.
//
//	board := ui.NewBoard("my-cluster")
//	go board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error { return f.Follow(ctx, nil, report) })
//	ui.Serve(ctx, listener, board, token)
//
// # Who may read it
//
// Every program on the machine can connect to the page's address, and so can other sites' pages in the user's browser.
// So each path starts with a random token, and [Handler] rejects requests with a different Host or a foreign Origin. No
// request changes anything. The page doesn't load anything from other hosts, and shows nodes' answers only as text.
//
// # How it follows changes
//
// [Board] keeps each node's latest answer. The page receives changes as server-sent events, up to four times per
// second, and requests a node's details when it shows them. While no page is open, or all of them are in hidden tabs,
// the nodes aren't followed. A slow page may miss answers, but always gets the latest.
package ui
