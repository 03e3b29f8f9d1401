def kernel(args, lo, hi):
    # multiply: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    x1 = buffer(args, 3, float64)
    s4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    c7 = integer(args, 7)
    x2 = buffer(args, 8, float64)
    c9 = integer(args, 9)
    b10 = integer(args, 10)
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
    v10 = float64(2.0)
    v31 = x0[0]
    v35 = int64(0)
    v39 = float64(0.0)
    v51 = float64(2.0)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b10)):
                i1 = opaque(i1)
                v1 = x1[i0 * s4 + i1]
                v2 = x1[i0 * s4 + i1 + c5]
                v3 = x1[i0 * s4 + i1 + c6]
                v4 = v2 + v3
                v5 = x1[i0 * s4 + i1 + c7]
                v6 = v4 + v5
                v8 = v6 + v7
                v9 = v8 - v0 * v1
                v11 = v9 * v10
                x2[i0 * s4 + i1] = v11
            for i1 in range(max(first, b10), min(last, b11)):
                v12 = x1[i0 * s4 + i1]
                v13 = x1[i0 * s4 + i1 + c5]
                v14 = x1[i0 * s4 + i1 + c6]
                v15 = v13 + v14
                v16 = x1[i0 * s4 + i1 + c7]
                v17 = v15 + v16
                v18 = x1[i0 * s4 + i1 + c9]
                v19 = v17 + v18
                v20 = v19 - v0 * v12
                v21 = v20 * v10
                x2[i0 * s4 + i1] = v21
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v22 = x1[i0 * s4 + i1]
                v23 = x1[i0 * s4 + i1 + c5]
                v24 = x1[i0 * s4 + i1 + c6]
                v25 = v23 + v24
                v26 = v25 + v7
                v27 = x1[i0 * s4 + i1 + c9]
                v28 = v26 + v27
                v29 = v28 - v0 * v22
                v30 = v29 * v10
                x2[i0 * s4 + i1] = v30
        else:
            v33 = int64(i0)
            v34 = (b14 <= v33) & (v33 < b13)
            v36 = int64(i0 + c15)
            v37 = select(v34, v36, v35)
            v41 = (b12 <= v33) & (v33 < b17)
            v42 = int64(i0 + c18)
            v43 = select(v41, v42, v35)
            for i1 in range(first, min(last, b10)):
                i1 = opaque(i1)
                v32 = x1[i0 * s4 + i1]
                v38 = x1[v37 * s16 + i1]
                v40 = select(v34, v38, v39)
                v44 = x1[v43 * s19 + i1]
                v45 = select(v41, v44, v39)
                v46 = v40 + v45
                v47 = x1[i0 * s4 + i1 + c7]
                v48 = v46 + v47
                v49 = v48 + v39
                v50 = v49 - v31 * v32
                v52 = v50 * v51
                x2[i0 * s4 + i1] = v52
            for i1 in range(max(first, b10), min(last, b11)):
                v53 = x1[i0 * s4 + i1]
                v54 = x1[v37 * s16 + i1]
                v55 = select(v34, v54, v39)
                v56 = x1[v43 * s19 + i1]
                v57 = select(v41, v56, v39)
                v58 = v55 + v57
                v59 = x1[i0 * s4 + i1 + c7]
                v60 = v58 + v59
                v61 = x1[i0 * s4 + i1 + c9]
                v62 = v60 + v61
                v63 = v62 - v31 * v53
                v64 = v63 * v51
                x2[i0 * s4 + i1] = v64
            for i1 in range(max(first, b11), last):
                i1 = opaque(i1)
                v65 = x1[i0 * s4 + i1]
                v66 = x1[v37 * s16 + i1]
                v67 = select(v34, v66, v39)
                v68 = x1[v43 * s19 + i1]
                v69 = select(v41, v68, v39)
                v70 = v67 + v69
                v71 = v70 + v39
                v72 = x1[i0 * s4 + i1 + c9]
                v73 = v71 + v72
                v74 = v73 - v31 * v65
                v75 = v74 * v51
                x2[i0 * s4 + i1] = v75


def kernel(args, lo, hi):
    # add_slice: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    b2 = integer(args, 2)
    b3 = integer(args, 3)
    c4 = integer(args, 4)
    x0 = buffer(args, 5, float64)
    s6 = integer(args, 6)
    c7 = integer(args, 7)
    c8 = integer(args, 8)
    x1 = buffer(args, 9, float64)
    s10 = integer(args, 10)
    c11 = integer(args, 11)
    c12 = integer(args, 12)
    c13 = integer(args, 13)
    b14 = integer(args, 14)
    b15 = integer(args, 15)
    b16 = integer(args, 16)
    b17 = integer(args, 17)
    c18 = integer(args, 18)
    b19 = integer(args, 19)
    b20 = integer(args, 20)
    c21 = integer(args, 21)
    s22 = integer(args, 22)
    s23 = integer(args, 23)
    s24 = integer(args, 24)
    c25 = integer(args, 25)
    c26 = integer(args, 26)
    c27 = integer(args, 27)
    v2 = int64(0)
    v27 = int64(0)
    v42 = float64(0.0)
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b16 <= i0 < b17:
            for i1 in range(first, min(last, b14)):
                i1 = opaque(i1)
                v0 = int64(i1)
                v1 = (b2 <= v0) & (v0 < b3)
                v3 = int64(i1 + c4)
                v4 = select(v1, v3, v2)
                v5 = x0[i0 * s6 + i1 + c7]
                v6 = x0[i0 * s6 + v4]
                v7 = v5 + v6
                v8 = select(v1, v7, v5)
                v9 = x0[i0 * s6 + v4 + c8]
                v10 = v8 + v9
                v11 = select(v1, v10, v8)
                x1[i0 * s10 + i1] = v11
            for i1 in range(max(first, b14), min(last, b15)):
                v12 = x0[i0 * s6 + i1 + c7]
                v13 = x0[i0 * s6 + i1 + c11]
                v14 = v12 + v13
                v15 = x0[i0 * s6 + i1 + c12]
                v16 = v14 + v15
                v17 = x0[i0 * s6 + i1 + c13]
                v18 = v16 + v17
                x1[i0 * s10 + i1] = v18
            for i1 in range(max(first, b15), min(last, b3)):
                i1 = opaque(i1)
                v19 = x0[i0 * s6 + i1 + c11]
                v20 = x0[i0 * s6 + i1 + c12]
                v21 = v19 + v20
                v22 = x0[i0 * s6 + i1 + c13]
                v23 = v21 + v22
                x1[i0 * s10 + i1] = v23
            for i1 in range(max(first, b3), last):
                i1 = opaque(i1)
                v24 = x0[i0 * s6 + i1 + c11]
                x1[i0 * s10 + i1] = v24
        else:
            v25 = int64(i0)
            v26 = (b16 <= v25) & (v25 < n0)
            v28 = int64(i0 + c18)
            v29 = select(v26, v28, v27)
            v35 = (0 <= v25) & (v25 < b17)
            v36 = select(v35, v25, v27)
            v38 = (b19 <= v25) & (v25 < b20)
            v39 = int64(i0 + c21)
            v40 = select(v38, v39, v27)
            for i1 in range(first, min(last, b14)):
                i1 = opaque(i1)
                v30 = int64(i1)
                v31 = (b2 <= v30) & (v30 < b3)
                v32 = int64(i1 + c4)
                v33 = select(v31, v32, v27)
                v34 = v26 & v31
                v37 = v35 & v31
                v41 = x0[v40 * s22 + i1]
                v43 = select(v38, v41, v42)
                v44 = x0[v36 * s23 + v33]
                v45 = v43 + v44
                v46 = select(v37, v45, v43)
                v47 = x0[v29 * s24 + v33]
                v48 = v46 + v47
                v49 = select(v34, v48, v46)
                x1[i0 * s10 + i1] = v49
            for i1 in range(max(first, b14), min(last, b15)):
                v50 = x0[v40 * s22 + i1]
                v51 = select(v38, v50, v42)
                v52 = x0[v40 * s22 + i1 + c25]
                v53 = v51 + v52
                v54 = select(v38, v53, v51)
                v55 = x0[v36 * s23 + i1 + c26]
                v56 = v54 + v55
                v57 = select(v35, v56, v54)
                v58 = x0[v29 * s24 + i1 + c27]
                v59 = v57 + v58
                v60 = select(v26, v59, v57)
                x1[i0 * s10 + i1] = v60
            for i1 in range(max(first, b15), min(last, b3)):
                i1 = opaque(i1)
                v61 = x0[v40 * s22 + i1 + c25]
                v62 = v42 + v61
                v63 = select(v38, v62, v42)
                v64 = x0[v36 * s23 + i1 + c26]
                v65 = v63 + v64
                v66 = select(v35, v65, v63)
                v67 = x0[v29 * s24 + i1 + c27]
                v68 = v66 + v67
                v69 = select(v26, v68, v66)
                x1[i0 * s10 + i1] = v69
            for i1 in range(max(first, b3), last):
                i1 = opaque(i1)
                v70 = x0[v40 * s22 + i1 + c25]
                v71 = v42 + v70
                v72 = select(v38, v71, v42)
                x1[i0 * s10 + i1] = v72


def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    s6 = integer(args, 6)
    c7 = integer(args, 7)
    x3 = buffer(args, 8, float64)
    v2 = x1[0]
    for row in range(quotient(lo, n1), quotient(hi + n1 - 1, n1)):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        for i1 in range(first, last):
            v0 = x0[i0 * s3 + i1]
            v1 = -v0
            v3 = x2[i0 * s6 + i1 + c7]
            v4 = v1 * v2 + v3
            x3[i0 * s3 + i1] = v4
