"""Sessions on whole columns: the kernels and their parts.

Sessions are chains of intervals that touch (`intervals`). A chain that a tardy element touches (`chains`) is
walked element by element: a few long chains one by one (`walk`), the others in parallel (`rounds`); meanwhile
`paths` lists the rows that make up the sessions' contents. Sessions of processing time have no tardy
elements, and a kernel of their own (`clock_kernel`).
"""
