def kernel(args, lo, hi):
    # subtract: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    x1 = buffer(args, 3, float64)
    s4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    c7 = integer(args, 7)
    x2 = buffer(args, 8, float64)
    b9 = integer(args, 9)
    c10 = integer(args, 10)
    b11 = integer(args, 11)
    b12 = integer(args, 12)
    b13 = integer(args, 13)
    b14 = integer(args, 14)
    c15 = integer(args, 15)
    s16 = integer(args, 16)
    b17 = integer(args, 17)
    c18 = integer(args, 18)
    s19 = integer(args, 19)
    v0 = x0[0]
    v7 = float64(0.0)
    v27 = x0[0]
    v31 = int64(0)
    v35 = float64(0.0)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v1 = x1[i0 * s4 + i1]
                v2 = x1[i0 * s4 + i1 + c5]
                v3 = x1[i0 * s4 + i1 + c6]
                v4 = v2 + v3
                v5 = x1[i0 * s4 + i1 + c7]
                v6 = v4 + v5
                v8 = v6 + v7
                v9 = v8 - v0 * v1
                x2[i0 * s4 + i1] = v9
            for i1 in range(max(first, b9), min(last, b11)):
                v10 = x1[i0 * s4 + i1]
                v11 = x1[i0 * s4 + i1 + c5]
                v12 = x1[i0 * s4 + i1 + c6]
                v13 = v11 + v12
                v14 = x1[i0 * s4 + i1 + c7]
                v15 = v13 + v14
                v16 = x1[i0 * s4 + i1 + c10]
                v17 = v15 + v16
                v18 = v17 - v0 * v10
                x2[i0 * s4 + i1] = v18
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v19 = x1[i0 * s4 + i1]
                v20 = x1[i0 * s4 + i1 + c5]
                v21 = x1[i0 * s4 + i1 + c6]
                v22 = v20 + v21
                v23 = v22 + v7
                v24 = x1[i0 * s4 + i1 + c10]
                v25 = v23 + v24
                v26 = v25 - v0 * v19
                x2[i0 * s4 + i1] = v26
        else:
            v29 = int64(i0)
            v30 = (b14 <= v29) & (v29 < b13)
            v32 = int64(i0 + c15)
            v33 = select(v30, v32, v31)
            v37 = (b12 <= v29) & (v29 < b17)
            v38 = int64(i0 + c18)
            v39 = select(v37, v38, v31)
            for i1 in range(first, min(last, b9)):
                i1 = opaque(i1)
                v28 = x1[i0 * s4 + i1]
                v34 = x1[v33 * s16 + i1]
                v36 = select(v30, v34, v35)
                v40 = x1[v39 * s19 + i1]
                v41 = select(v37, v40, v35)
                v42 = v36 + v41
                v43 = x1[i0 * s4 + i1 + c7]
                v44 = v42 + v43
                v45 = v44 + v35
                v46 = v45 - v27 * v28
                x2[i0 * s4 + i1] = v46
            for i1 in range(max(first, b9), min(last, b11)):
                v47 = x1[i0 * s4 + i1]
                v48 = x1[v33 * s16 + i1]
                v49 = select(v30, v48, v35)
                v50 = x1[v39 * s19 + i1]
                v51 = select(v37, v50, v35)
                v52 = v49 + v51
                v53 = x1[i0 * s4 + i1 + c7]
                v54 = v52 + v53
                v55 = x1[i0 * s4 + i1 + c10]
                v56 = v54 + v55
                v57 = v56 - v27 * v47
                x2[i0 * s4 + i1] = v57
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v58 = x1[i0 * s4 + i1]
                v59 = x1[v33 * s16 + i1]
                v60 = select(v30, v59, v35)
                v61 = x1[v39 * s19 + i1]
                v62 = select(v37, v61, v35)
                v63 = v60 + v62
                v64 = v63 + v35
                v65 = x1[i0 * s4 + i1 + c10]
                v66 = v64 + v65
                v67 = v66 - v27 * v58
                x2[i0 * s4 + i1] = v67
