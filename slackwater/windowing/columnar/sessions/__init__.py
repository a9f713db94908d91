"""Sessions on whole columns: the kernels and their parts.

Sessions are intervals that touch (`intervals`). A chain of sessions that a tardy element touches (`chains`)
is walked element by element: few long chains one by one (`walk`), the others abreast (`rounds`). `paths`
holds the lists of rows that make up the contents of the sessions meanwhile. Sessions of processing time have
no tardy elements, and a kernel of their own (`clock_kernel`).
"""
